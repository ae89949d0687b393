"""An actor in a process of its own: `python replay_actor.py ADDRESS SEED SEGMENTS`."""

import sys

from replay_cases import FREE, SPEC, episode

from mallocmuzero.replay.reverb.client import ReverbReplay

if __name__ == "__main__":
    address, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    replay = ReverbReplay(address, FREE, SPEC)
    writer = replay.writer()
    for step in episode(SPEC.period * count, seed):
        writer.append(step)
    writer.end_episode()
    writer.flush(30)
    writer.close()
    replay.close()
