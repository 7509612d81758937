// SPDX-License-Identifier: GPL-2.0-only
//! `limelight graph`: the process dependency graph in DOT.

use serde_json::Value;

/// The daemon's answer as DOT. `name` knows what a process is called.
pub fn dot(graph: &Value, name: impl Fn(u64) -> Option<String>) -> String {
    let mut text = String::from(
        "digraph limelight {\n\trankdir=LR;\n\tnode [shape=box, style=filled, fillcolor=white, fontname=\"sans\"];\n",
    );
    for node in graph["nodes"].as_array().into_iter().flatten() {
        let pid = node["pid"].as_u64().unwrap_or(0);
        let colour = match node["class"].as_str() {
            Some("HUCIN") => "#ffd27f",
            Some("HUCOUT") => "#bfe3bf",
            _ => "white",
        };
        let shape = if node["hub"].is_null() { "box" } else { "octagon" };
        let label = quote(&name(pid).unwrap_or_else(|| "gone".to_owned()));
        text.push_str(&format!("\t{pid} [label=\"{label}\\n{pid}\", fillcolor=\"{colour}\", shape={shape}];\n"));
    }
    for edge in graph["edges"].as_array().into_iter().flatten() {
        let (from, to, weight) = (&edge["from"], &edge["to"], &edge["weight"]);
        text.push_str(&format!("\t{from} -> {to} [label=\"{weight}\"];\n"));
    }
    text.push_str("}\n");
    text
}

/// What a process calls itself, inside a quoted string of DOT.
fn quote(name: &str) -> String {
    crate::table::printable(name).replace('\\', "\\\\").replace('"', "\\\"")
}

/// The name a process shows now.
pub fn name_of(pid: u64) -> Option<String> {
    limelight_daemon::procfs::name(u32::try_from(pid).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use limelight_policy::{Edge, Event, State, step};

    /// Nodes are coloured by class, hubs stand out, names cannot break out of their quotes.
    #[test]
    fn the_graph_is_dot() {
        let mut state = State::new(limelight_policy::Settings::default()).unwrap();
        step(&mut state, Event::Display { display: ":0".into(), server: Some(100.into()) }, 0);
        step(&mut state, Event::Input { pid: 200.into(), display: ":0".into() }, 0);
        step(&mut state, Event::Edges(vec![Edge { from: 200.into(), to: 300.into(), count: 4 }]), 0);
        let graph = serde_json::to_value(state.graph()).unwrap();
        let text = dot(&graph, |pid| (pid != 300).then(|| "a\"b\\c\nd".to_owned()));
        assert!(text.contains("100 [label=\"a\\\"b\\\\c?d\\n100\", fillcolor=\"#ffd27f\", shape=octagon];"), "{text}");
        assert!(text.contains("300 [label=\"gone\\n300\", fillcolor=\"white\", shape=box];"), "{text}");
        assert!(text.contains("\t200 -> 300 [label=\"4\"];\n") && text.ends_with("}\n"), "{text}");
    }
}
