// Command crossings counts the calls between the packages of a folder, and checks limits:
//
//	go run ./test/crossings
//
// It prints two results for nvmeof/target.
//
// The calls of a READ: the number of calls from a package of the folder into another package of this module that one
// READ of 4 KiB causes, from the arrival of the capsule to the acknowledgement of the response. TestReads of the folder
// executes READs under Go's coverage counters, once few and once many, so that work done once per connection cancels
// out. Each call then counts as often as its block was executed. Calls of functions and methods count, also through
// interfaces. Built-in functions, the standard library and the calls made by packages below the folder do not count.
// Nor does what a shard does once a turn for all its commands (the functions named Poll and Arm). Both operands of &&
// and || count as executed.
//
// The references back up: a reference is a function of one room of the folder together with a function of another room
// that it calls. Rooms are the packages, and the two halves of nvmeof/target itself: the session, which shards own, and
// above it the administration. A reference goes back up if the session calls the administration, or if the package of
// the called function imports the caller's package. That is possible in three ways only: by a method of an interface,
// for each type of the folder that implements it; by a function that the upper package passes to the lower one, as an
// argument or in a field (loops over functions aside); and by an assertion that an interface of the lower package is a
// type of the upper.
//
// The command fails if a limit is exceeded, or if a structure embeds a type of another package of the folder.
package main
