"""Measurements of docs/clusters.md: memory over an hour of training (`soak`), damaged files at all readers (`fuzz`)."""
