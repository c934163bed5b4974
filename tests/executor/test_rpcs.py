"""A question is answered once: by the worker, or by its death."""

from itertools import count

import pytest

from omni_cli.errors import ProtocolError, WorkerDied
from omni_cli.executor.rpcs import Rpcs
from omni_cli.transport.messages import RpcResult


def test_answers_find_their_questions_in_any_order() -> None:
    rpcs = Rpcs(count(1).__next__)
    (first_id, first), (second_id, second) = rpcs.ask(0), rpcs.ask(1)
    for rpc_id in (second_id, first_id):
        rpcs.answer(RpcResult(rpc_id=rpc_id, drained=rpc_id == first_id))
    assert (first.result(0).drained, second.result(0).drained) == (True, False)


def test_an_answer_comes_once() -> None:
    rpcs = Rpcs(count(1).__next__)
    rpc_id, _ = rpcs.ask(0)
    rpcs.answer(RpcResult(rpc_id=rpc_id))
    with pytest.raises(ProtocolError, match=f"rpc {rpc_id}, which was not asked"):
        rpcs.answer(RpcResult(rpc_id=rpc_id))


def test_a_death_answers_the_questions_to_that_worker_alone() -> None:
    rpcs = Rpcs(count(1).__next__)
    (_, of_the_dead), (rpc_id, of_another) = rpcs.ask(0), rpcs.ask(1)
    rpcs.lost(0, WorkerDied("gone"))
    assert str(of_the_dead.exception(0)) == "gone"
    rpcs.answer(RpcResult(rpc_id=rpc_id))
    assert of_another.result(0).rpc_id == rpc_id
