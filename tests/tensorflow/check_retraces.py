"""Functions that are traced over and over: which, how often, and for what;
and those that have paid for their traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import impactarbiter


def warned(program: Callable[[], Any]) -> list[str]:
    with impactarbiter.watch() as arbiter:
        program()
        found = list(arbiter.report().warnings)
    return [said for said in found if "traces of" in said]


@tf.function
def scaled(x, n):
    return x * n


def test_a_python_number_is_named_with_function_and_count() -> None:
    (said,) = warned(lambda: [scaled(tf.ones(4), n) for n in range(40)])
    assert "Python value of `n` (now 39): 40 traces of scaled()" in said
    assert "check_retraces.py" in said


def test_shapes_that_each_serve_long_are_no_warning() -> None:
    @tf.function
    def bucketed(x):
        return x * 2

    def program():
        for size in range(10, 22):
            for _ in range(30):
                bucketed(tf.ones(size))

    assert warned(program) == []


def test_what_was_traced_before_the_watch_does_not_count() -> None:
    @tf.function
    def early(x, n):
        return x * n

    for n in range(40):
        early(tf.ones(4), n)
    assert warned(lambda: [early(tf.ones(4), 1) for _ in range(40)]) == []


def test_a_function_that_is_made_anew_and_dropped() -> None:
    def program():
        for _ in range(20):
            tf.function(lambda x: x + 1)(tf.ones(4))

    (said,) = warned(program)
    assert "from a new function object each time: 20 traces of" in said
    assert "<lambda>() (check_retraces.py" in said


def test_a_method_and_a_value_inside_of_an_argument() -> None:
    class Model:
        @tf.function
        def step(self, x, options):
            return x * options["rate"]

    model = Model()
    (said,) = warned(
        lambda: [model.step(tf.ones(4), {"rate": 0.5**n}) for n in range(20)]
    )
    assert "Python value of `options['rate']`" in said
    assert "20 traces of Model.step() (check_retraces.py" in said


def test_a_report_traces_nothing() -> None:
    traced = []

    @tf.function(input_signature=[tf.TensorSpec([4])])
    def never_called(x):
        traced.append(x)
        return x

    warned(lambda: [scaled(tf.ones(4), 1.5) for _ in range(20)])
    assert not traced
    assert never_called is not None
