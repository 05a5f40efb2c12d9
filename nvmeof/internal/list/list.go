// Package list implements a queue whose elements hold their own links: adding an element allocates nothing, and
// removing one from the middle needs no search.
package list

// A List is a queue of elements. The zero value is empty. Each element holds a [Link]; through one Link it is in at
// most one list at a time.
type List[T any] struct {
	first, last *Link[T]
}

// A Link is an element's place in a list. The zero value is in no list.
type Link[T any] struct {
	prev, next *Link[T]
	element    *T // nil: not in a list
}

// Push appends an element to the list.
func (l *List[T]) Push(element *T, link *Link[T]) {
	link.element, link.prev, link.next = element, l.last, nil
	if l.last == nil {
		l.first = link
	} else {
		l.last.next = link
	}
	l.last = link
}

// First returns the oldest element, or nil if the list is empty.
func (l *List[T]) First() *T {
	if l.first == nil {
		return nil
	}
	return l.first.element
}

// Pop removes the oldest element and returns it, or nil if the list is empty.
func (l *List[T]) Pop() *T {
	element := l.First()
	if element != nil {
		l.Remove(l.first)
	}
	return element
}

// Remove removes the element with this link. It does nothing if the element is in no list. The element must not be in a
// different list.
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

// Next returns the element after this one, or nil at the end.
func (k *Link[T]) Next() *T {
	if k.next == nil {
		return nil
	}
	return k.next.element
}

// Prev returns the element before this one, or nil at the beginning.
func (k *Link[T]) Prev() *T {
	if k.prev == nil {
		return nil
	}
	return k.prev.element
}
