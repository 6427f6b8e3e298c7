"""LangGraph: a graph of a model and its tools."""

from pathlib import Path

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def read_file(path: str) -> str:
    """Read a file of the workspace."""
    return Path(path).read_text()


model = ChatOpenAI(model="scripted").bind_tools([read_file])
graph = StateGraph(MessagesState)
graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
graph.add_node("tools", ToolNode([read_file]))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")
print(graph.compile().invoke({"messages": [("user", "Read the notes.")]})["messages"][-1].content)
