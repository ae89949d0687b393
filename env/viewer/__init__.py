"""Pictures of mappings."""
