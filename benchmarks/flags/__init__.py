"""What flags alone are worth, and whether they still gain after the sizes of a function have changed."""
