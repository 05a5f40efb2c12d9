// Package decide has the decisions of a host with several paths, as pure functions and values: when to reconnect, which
// path a request takes, what the result of a request means, and what an ANA log says. The time is passed as an
// argument.
package decide
