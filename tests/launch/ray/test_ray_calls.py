"""Calls that take too long count as hung, and a process that hangs can be ended. No Ray is started."""

import os
import signal
import subprocess
import time
from dataclasses import replace

import pytest

from mallocmuzero.launch.config.ray import ACTOR, EVALUATOR, LEARNER, RayConfig
from mallocmuzero.launch.ray import calls as ray_calls
from mallocmuzero.launch.ray import processes as ray_processes
from mallocmuzero.launch.ray.calls import STATE, Calls

SETTINGS = RayConfig(call_timeout_s=10.0, start_timeout_s=100.0)


def test_a_call_is_late_once_and_the_first_one_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(ray_calls.time, "monotonic", lambda: now)
    calls = Calls(SETTINGS, lambda role, index: True)
    calls.has_worked(ACTOR, 1)
    calls.has_worked(EVALUATOR)
    calls.has_worked(LEARNER)
    for reference, role, index in ((0, ACTOR, 0), (1, ACTOR, 1), (2, EVALUATOR, 0), (3, LEARNER, 0)):
        calls.add(reference, role, index)
    assert calls.under_way(EVALUATOR)
    assert not calls.under_way(STATE)
    now += 11
    assert [(call.role, call.index) for call in calls.overdue()] == [(ACTOR, 1), (LEARNER, 0)]
    assert calls.overdue() == []
    now += 90  # An evaluation may take ten times as long.
    assert [call.role for call in calls.overdue()] == [EVALUATOR]
    now += 10  # Now what has to compile, too.
    assert [(call.role, call.index) for call in calls.overdue()] == [(ACTOR, 0)]
    calls.begins(ACTOR, 1)  # A new worker in its place.
    assert not calls.proven(ACTOR, 1)
    calls.pop(1)
    calls.add(4, ACTOR, 1)
    now += 20
    assert calls.overdue() == []
    assert not calls.begun_since(ACTOR, now - 30)  # 0 is of 1000
    assert calls.begun_since(LEARNER, 999.0)
    assert not calls.begun_since(LEARNER, 1000.0)
    calls.pop(0)
    assert calls.begun_since(ACTOR, now - 30)
    calls.add(0, ACTOR, 0)
    assert calls.drop(EVALUATOR)
    assert calls.references == [3, 4, 0]
    assert calls.limit_s(replace(calls.pop(4), first=False)) == 10


def test_a_worker_that_waits_for_room_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(ray_calls.time, "monotonic", lambda: now)
    there: set[int] = set()
    calls = Calls(SETTINGS, lambda role, index: index in there)
    for index in range(2):
        calls.add(index, ACTOR, index)
    absent = []
    for _ in range(50):
        now += 100
        assert calls.overdue() == []
        absent += [call.index for call in calls.absent()]
    assert absent == [0, 1]  # each is told once
    there.add(1)  # A node has joined.
    assert calls.overdue() == []
    now += 109
    assert calls.overdue() == []
    now += 2
    assert [call.index for call in calls.overdue()] == [1]
    calls.drop_absent()
    assert calls.references == [1]


def test_a_stopped_process_is_ended_and_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_processes, "_LEAVE_S", 0.2)
    with subprocess.Popen(["sleep", "60"]) as process:
        here = ray_processes._Process("node", process.pid, ray_processes._began(process.pid))
        os.kill(process.pid, signal.SIGSTOP)
        # Of the same number, but not the same beginning: not ours.
        ray_processes._kill(replace(here, began="1"))
        time.sleep(0.1)
        assert process.poll() is None
        ray_processes._kill(here)
        assert process.wait(10) == -signal.SIGKILL
    ray_processes._kill(here)  # It is gone: nothing to do.
    with subprocess.Popen(["sleep", "60"]) as process:  # One that runs is given time to end by itself.
        ray_processes._kill(ray_processes._Process("node", process.pid, ray_processes._began(process.pid)))
        assert process.wait(10) == -signal.SIGKILL
