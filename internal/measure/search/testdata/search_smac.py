"""Search a space with SMAC. Standard input: a line of JSON with the number of levels and the default
of each knob, the number of runs and a seed; then the cost of each run, a line each. Standard output:
the point of each run as a list of levels, a line each; then "best" and the point SMAC ends with.
The costs are measured by the other end, so both searches see the same functions and noise."""

import json
import logging
import sys
import tempfile

from ConfigSpace import Configuration, ConfigurationSpace, OrdinalHyperparameter
from smac import HyperparameterOptimizationFacade, Scenario
from smac.runhistory.dataclasses import TrialValue

logging.disable(logging.CRITICAL)
space = json.loads(sys.stdin.readline())
configs = ConfigurationSpace(seed=space["seed"])
for i, (levels, default) in enumerate(zip(space["levels"], space["defaults"])):
    configs.add(OrdinalHyperparameter(f"k{i}", list(range(levels)), default_value=default))


def levels_of(config: Configuration) -> list[int]:
    return [int(config[f"k{i}"]) for i in range(len(space["levels"]))]


with tempfile.TemporaryDirectory() as directory:
    scenario = Scenario(configs, n_trials=space["runs"], seed=space["seed"], output_directory=directory)
    search = HyperparameterOptimizationFacade(
        scenario,
        lambda config, seed=0: 0.0,
        initial_design=HyperparameterOptimizationFacade.get_initial_design(
            scenario, additional_configs=[configs.get_default_configuration()]
        ),
        overwrite=True,
        logging_level=False,
    )
    for _ in range(space["runs"]):
        trial = search.ask()
        print(json.dumps(levels_of(trial.config)), flush=True)
        search.tell(trial, TrialValue(cost=float(sys.stdin.readline())))
    incumbents = search.intensifier.get_incumbents()
    print("best", json.dumps(levels_of(incumbents[0])), flush=True)
