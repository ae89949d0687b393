"""Pictures of mappings: `picture.draw`."""
