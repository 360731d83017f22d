"""The arc-flow formulation: requests as flows through layered graphs of states, coupled by what they share."""

from formulations.arc_flow.graph import Arc, Graph, Node
from formulations.arc_flow.program import ArcFlow
from formulations.arc_flow.setting import Setting
from formulations.arc_flow.transitions import Action, NodeState, Transitions

__all__ = ["Action", "Arc", "ArcFlow", "Graph", "Node", "NodeState", "Setting", "Transitions"]
