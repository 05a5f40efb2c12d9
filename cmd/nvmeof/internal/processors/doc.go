// Package processors shares the processors of the machine among the threads of the program:
// what a thread without work does ([ParsePolling]), how many processors the Go runtime leaves
// beside threads that poll ([Need]), and how much of them other processes used ([Usage]).
package processors
