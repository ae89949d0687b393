"""Whatever plays or maps a program: self-play, search, evaluation, reference players."""
