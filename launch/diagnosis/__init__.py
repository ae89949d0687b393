"""What a trained agent knows, and where it errs: docs/diagnosis.md."""
