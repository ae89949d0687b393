"""placeholder"""


def optimise(*unused):
    pass
