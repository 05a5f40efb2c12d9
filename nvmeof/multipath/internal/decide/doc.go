// Package decide holds what a host with several paths decides, as pure functions
// and values: when to connect again, which path a request takes, what the end of
// a request means, what an ANA log says. The time comes as an argument.
package decide
