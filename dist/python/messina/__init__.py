"""Messina, a wide-column database: nodes for tests.

    with messina.node() as node:
        print(node.contact_point, node.port)

The program is on the path after `pip install messina`; `messina.program()` is its path.
"""

from .node import Node, NodeError, node, program

__all__ = ["Node", "NodeError", "node", "program"]
