"""The arc-flow formulation: requests as flows through layered graphs of states, coupled by what they share."""

from formulations.arc_flow.graph import Arc, Graph, Node
from formulations.arc_flow.life import Action, Life, State
from formulations.arc_flow.program import ArcFlow
from formulations.arc_flow.setting import Setting

__all__ = ["Action", "Arc", "ArcFlow", "Graph", "Life", "Node", "Setting", "State"]
