package admission

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// amount is a sum of quantities.
type amount struct{ resource.Quantity }

func (a *amount) add(q resource.Quantity) { a.Add(q) }
func (a *amount) addInt(n int64)          { a.Add(*resource.NewQuantity(n, resource.DecimalSI)) }

// names lists the resources in order.
func (r Resources) names() []string { return slices.Sorted(maps.Keys(r)) }

func (r Resources) clone() Resources {
	if r == nil {
		return nil
	}
	out := make(Resources, len(r))
	for name, q := range r {
		out[name] = q.DeepCopy()
	}
	return out
}

// plus adds the amounts of more.
func (r Resources) plus(more Resources) {
	for name, q := range more {
		sum := r[name].DeepCopy()
		sum.Add(q)
		r[name] = sum
	}
}

// atLeast raises the amounts to those of other.
func (r Resources) atLeast(other Resources) {
	for name, q := range other {
		if have, ok := r[name]; !ok || q.Cmp(have) > 0 {
			r[name] = q.DeepCopy()
		}
	}
}

// isHugePages reports whether a resource is a size of huge pages.
func isHugePages(name string) bool { return strings.HasPrefix(name, hugePages) }

// isNative reports whether a resource is Kubernetes' own: without a domain, or of
// kubernetes.io.
func isNative(name string) bool {
	return !strings.Contains(name, "/") || strings.Contains(name, "kubernetes.io/")
}

// isExtended reports whether a resource is a device plug-in's or another program's.
func isExtended(name string) bool { return !isNative(name) && !strings.HasPrefix(name, "requests.") }

// mayOvercommit reports whether a request may be below the limit.
func mayOvercommit(name string) bool { return isNative(name) && !isHugePages(name) }

// ofPod reports whether a resource can be given for a pod as a whole.
func ofPod(name string) bool { return name == CPU || name == Memory || isHugePages(name) }

// positive reports whether a quantity is there and above zero.
func positive(q resource.Quantity) bool { return q.Sign() > 0 }
