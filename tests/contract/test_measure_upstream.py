"""What measuring relies on in JAX beside its documented interface."""

import inspect

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.mosaic.gpu import profiler

from kgen.measure import example
from kgen.measure.problem import Problem


def test_the_profiler_takes_a_function_and_a_number_of_iterations():
    assert "iterations" in inspect.signature(profiler.measure).parameters
    with pytest.raises(ValueError, match="must be positive"):
        profiler.measure(lambda: None, iterations=0)


def test_the_shipped_example_is_called_as_it_is_defined():
    problem = Problem(
        shape=(512, 512, 256), operand_dtype="bfloat16", out_dtype="bfloat16"
    )
    operand = jax.ShapeDtypeStruct((512, 256), jnp.bfloat16)
    for each in (example.examples(problem)[0], example.examples(problem)[-1]):
        function = example.function(each)
        matmul, config = function.args
        inspect.signature(matmul).bind(operand, operand, None, config)
        assert config.tile_m == each.tile_m
        wanted = {"m": 0, "n": 1, None: None}[each.cluster_dimension]
        assert config.cluster_dimension == wanted
