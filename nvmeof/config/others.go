package config

// noCounterpart is the advice for a file that cannot be converted to a document.
const noCounterpart = "it cannot be converted: write a configuration, as described by nvmeof target schema"

// ofOthers returns a problem if a file is the configuration of another target, else nil. Otherwise each of its
// fields would be a problem of its own.
func ofOthers(n *node) *Problem {
	switch {
	case n.kind != kindObject || n.get("version") != nil:
		return nil
	case isSPDK(n):
		return &Problem{At: n.at, Text: "this is a configuration of SPDK, not of this target", Fix: noCounterpart}
	case n.get("ports") != nil:
		return &Problem{
			At: n.at, Text: "this is a configuration of the kernel's target, saved by nvmetcli",
			Fix: "convert it with nvmeof target import FILE",
		}
	}
	return nil
}

// isSPDK reports whether a file is the output of SPDK's save_config: calls of its API, grouped by SPDK subsystem.
func isSPDK(n *node) bool {
	all := n.get("subsystems").list()
	return len(all) > 0 && all[0].get("subsystem") != nil && all[0].get("config") != nil
}
