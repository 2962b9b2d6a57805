package upstream

import (
	"reflect"

	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

type hints = map[string][]topologymanager.TopologyHint

// recorder records a manager's answers to the topology manager. If the manager is a policy, each
// call also passes its state.
type recorder struct {
	k       *Kubelet
	name    string
	manager any
	state   any
}

func (r recorder) call(method string, args ...any) []reflect.Value {
	if r.state != nil {
		args = append([]any{r.state}, args...)
	}
	return call(reflect.ValueOf(r.manager).MethodByName(method).Interface(), args...)
}

func (r recorder) answer(method, container string, args ...any) hints {
	answer := result[hints](r.call(method, args...))
	r.k.calls = append(r.k.calls, Call{container, r.name, answer})
	return answer
}
