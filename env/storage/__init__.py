"""Cache folder, atomic writes, bounded decompression."""
