"""The committed programs, for tests that go through all of them."""

from mallocmuzero.env.workloads import names

# Programs of more accesses than this are long.
LONG = 5_000
LONG_PROGRAMS = (
    "unet-train-b2",
    "bert-large-adam-b8",
    "t5-large-train-b4-v5p",
    "llama-24-adam-b4-s256",
    "resnet152-adam-b32-v4",
    "unet-64-train-b1",
    "whisper-medium-train-b1-v4",
    "bart-large-adam-b4-v4",
    "cait-48-adam-b16-v6e",
    "gemma-24-adam-b4-s256",
    "conformer-17-adam-b2-v5p",
    "mixer-32-adam-b8-v6e",
    "alphatensor-train-b4-v4",
)
# All but most of the long ones, for checks that take a second or more on each of those.
MOST = [name for name in names() if name not in LONG_PROGRAMS or name == "unet-train-b2"]
