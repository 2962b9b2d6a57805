// deepcopy has what the types of Kubernetes objects are copied by, so that a copy
// shares nothing with what it was made from. Objects from a cache are shared: whoever
// changes one copies it first.

package cluster

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// Object is a copy of an object. That of nil is nil, and no interface that holds a nil
// pointer.
func Object[T any, P interface {
	*T
	runtime.Object
	DeepCopy() *T
}](o P) runtime.Object {
	if o == nil {
		return nil
	}
	return P(o.DeepCopy())
}

// Pointer leads to a copy of what p leads to, which holds nothing by reference itself; nil
// for nil.
func Pointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// Slice is a copy of a list whose items are copied by item; nil for nil.
func Slice[T any](list []T, item func(*T) *T) []T {
	out := slices.Clone(list)
	for i := range list {
		out[i] = *item(&list[i])
	}
	return out
}
