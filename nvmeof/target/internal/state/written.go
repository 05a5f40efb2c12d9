package state

import "github.com/nvmeof-go/nvmeof/capsule"

// Written has the namespaces to which data was written that may be volatile: the first few, beyond that all.
type Written struct {
	ids [8]capsule.NSID // the most recent one first; 0: none
	all bool
}

// Add adds a namespace. Most writes go to the same namespace as the previous write.
func (w *Written) Add(id capsule.NSID) {
	if w.ids[0] != id {
		w.add(id)
	}
}

func (w *Written) add(id capsule.NSID) {
	at := 0
	for at < len(w.ids)-1 && w.ids[at] != id && w.ids[at] != 0 {
		at++
	}
	w.all = w.all || w.ids[at] != id && w.ids[at] != 0
	w.ids[at] = w.ids[0]
	w.ids[0] = id
}

// Join adds all namespaces of another Written.
func (w *Written) Join(o *Written) {
	w.all = w.all || o.all
	for _, id := range o.ids {
		if id != 0 {
			w.Add(id)
		}
	}
}

// Has reports whether a namespace is included.
func (w *Written) Has(id capsule.NSID) bool {
	for _, have := range w.ids {
		if have == id {
			return true
		}
	}
	return w.all
}
