package profile

// ordered is a map that keeps the order of insertion, with the rules of
// Python's dict, which merged profiles show: setting a key again keeps its
// place, deleting and setting it again moves it to the end.
type ordered[V any] struct {
	slots []slot[V]
	index map[string]int // into slots
}

type slot[V any] struct {
	key   string
	value V
	live  bool
}

func newOrdered[V any]() *ordered[V] { return &ordered[V]{index: map[string]int{}} }

func (o *ordered[V]) get(key string) (v V, ok bool) {
	i, ok := o.index[key]
	if !ok {
		return v, false
	}
	return o.slots[i].value, true
}

func (o *ordered[V]) set(key string, v V) {
	if i, ok := o.index[key]; ok {
		o.slots[i].value = v
		return
	}
	o.index[key] = len(o.slots)
	o.slots = append(o.slots, slot[V]{key, v, true})
}

func (o *ordered[V]) remove(key string) (v V, ok bool) {
	i, ok := o.index[key]
	if !ok {
		return v, false
	}
	v = o.slots[i].value
	o.slots[i] = slot[V]{}
	delete(o.index, key)
	return v, true
}

// moveToFront puts keys, which must be present, before all others, in the
// given order.
func (o *ordered[V]) moveToFront(keys []string) {
	front := make([]slot[V], 0, len(o.index))
	for _, k := range keys {
		i := o.index[k]
		front = append(front, o.slots[i])
		o.slots[i].live = false
	}
	for _, s := range o.slots {
		if s.live {
			front = append(front, s)
		}
	}
	o.slots = front
	for i, s := range front {
		o.index[s.key] = i
	}
}

func (o *ordered[V]) values() []V {
	out := make([]V, 0, len(o.index))
	for _, s := range o.slots {
		if s.live {
			out = append(out, s.value)
		}
	}
	return out
}
