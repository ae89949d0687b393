"""The trained policy beside its placebos: alone, and as a part of the solver `guided`."""
