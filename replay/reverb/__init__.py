"""The replay behind Reverb servers. The only room that imports Reverb and TensorFlow."""
