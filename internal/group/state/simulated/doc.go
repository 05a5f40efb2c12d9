// Package simulated implements a store of package state for simulations. It has no clock, no goroutine and no lock,
// uses one random generator, and loses, delays and reorders the messages of its clients.
//
// A simulator calls [Store.Get], [Store.Txn] and [Store.Watch], which return the number of the call at once.
// [Store.Next] says when something happens next. At that time [Store.Advance] executes what has arrived and returns the
// replies to clients. The time is always an argument and must not decrease.
//
//	s := simulated.New(rand.New(rand.NewPCG(seed, 0)))
//	c := s.Join()
//	call := s.Txn(now, c, txn, 2*time.Second)
//	for at, ok := s.Next(); ok; at, ok = s.Next() {
//		for _, r := range s.Advance(at) { ... }
//	}
//
// A client is a process. One that is killed leaves, and joins again as another client. What it has sent may still be
// executed.
//
// [Share] turns a store into a [state.Store] whose calls block, with the clock of package time, which in a
// testing/synctest bubble is the bubble's clock.
package simulated
