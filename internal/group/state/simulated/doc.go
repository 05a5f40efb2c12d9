// Package simulated is a store of package state for simulations: it has no clock, no goroutine
// and no lock, draws from one generator, and loses, delays and reorders what its clients send.
//
// A simulator calls [Store.Get], [Store.Txn] and [Store.Watch], which return at once with the
// number of the call, and asks [Store.Next] when something happens next. At that time
// [Store.Advance] carries out what has arrived, and returns what clients hear. The time is an
// argument everywhere, and never goes back.
//
//	s := simulated.New(rand.New(rand.NewPCG(seed, 0)))
//	c := s.Join()
//	call := s.Txn(now, c, txn, 2*time.Second)
//	for at, ok := s.Next(); ok; at, ok = s.Next() {
//		for _, r := range s.Advance(at) { ... }
//	}
//
// A client is a process: one that is killed leaves, and joins again as another client. What it
// has sent may still be carried out.
//
// [Share] makes of it a [state.Store] whose calls block, by the clock of package time, which is
// that of a bubble of testing/synctest in one.
package simulated
