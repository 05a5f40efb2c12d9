// Package list is a queue whose elements hold their own links, so that to queue one
// allocates nothing and to take one out of the middle needs no search.
package list

// A List is a queue of elements. The zero value is empty. Each element holds a [Link],
// and is in at most one list with it at a time.
type List[T any] struct {
	first, last *Link[T]
}

// A Link is an element's place in a list. The zero value is in none.
type Link[T any] struct {
	prev, next *Link[T]
	element    *T // nil: in no list
}

// Push puts an element at the end.
func (l *List[T]) Push(element *T, link *Link[T]) {
	link.element, link.prev, link.next = element, l.last, nil
	if l.last == nil {
		l.first = link
	} else {
		l.last.next = link
	}
	l.last = link
}

// First is the oldest element, nil if there is none.
func (l *List[T]) First() *T {
	if l.first == nil {
		return nil
	}
	return l.first.element
}

// Pop takes out the oldest element and returns it, nil if there is none.
func (l *List[T]) Pop() *T {
	element := l.First()
	if element != nil {
		l.Remove(l.first)
	}
	return element
}

// Remove takes out the element with this link. If it is in no list, nothing happens; it
// must not be in another one.
func (l *List[T]) Remove(link *Link[T]) {
	if link.element == nil {
		return
	}
	if link.prev == nil {
		l.first = link.next
	} else {
		link.prev.next = link.next
	}
	if link.next == nil {
		l.last = link.prev
	} else {
		link.next.prev = link.prev
	}
	*link = Link[T]{}
}

// Linked reports whether the element is in a list.
func (k *Link[T]) Linked() bool { return k.element != nil }

// Next is the element after this one, nil at the end.
func (k *Link[T]) Next() *T {
	if k.next == nil {
		return nil
	}
	return k.next.element
}

// Prev is the element before this one, nil at the beginning.
func (k *Link[T]) Prev() *T {
	if k.prev == nil {
		return nil
	}
	return k.prev.element
}
