"""The replay behind Reverb servers. No other folder imports Reverb or TensorFlow."""
