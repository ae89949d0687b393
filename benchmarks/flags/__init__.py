"""What flags alone gain, and whether they still gain after the sizes of a function have changed."""
