package run

import (
	"encoding/json"
	"slices"
	"time"
)

// object has the fields needed to judge an object's readiness.
type object struct {
	Metadata struct {
		Name, Namespace, ResourceVersion string
		Generation                       int64
		DeletionTimestamp                string
		CreationTimestamp                time.Time
		Labels                           map[string]string
		OwnerReferences                  []struct{ Controller bool }
	}
	Spec struct {
		NodeName    string
		Replicas    *int64
		Completions *int64
	}
	Status struct {
		Phase                  string
		ObservedGeneration     json.RawMessage // a string in early OpenShift versions
		ReadyReplicas          int64
		UpdatedReplicas        int64
		NumberReady            int64
		DesiredNumberScheduled int64
		Succeeded              int64
		Conditions             []struct {
			Type, Status, Reason, Message string
			LastTransitionTime            time.Time
		}
	}
}

// readiness maps kinds that take time to become ready to a test of an object's readiness.
var readiness = map[string]func(*object) bool{
	"Pod": func(o *object) bool { return o.Status.Phase == "Running" || o.Status.Phase == "Succeeded" },
	// After a patch, the new pods must be ready.
	"Deployment": func(o *object) bool {
		return replicasReady(o) && (o.Spec.Replicas == nil || o.Status.UpdatedReplicas >= *o.Spec.Replicas)
	},
	"ReplicaSet":            replicasReady,
	"StatefulSet":           replicasReady,
	"ReplicationController": replicasReady,
	"DeploymentConfig":      replicasReady,
	"DaemonSet": func(o *object) bool {
		return o.observed() && o.Status.DesiredNumberScheduled > 0 && o.Status.NumberReady >= o.Status.DesiredNumberScheduled
	},
	"Job": func(o *object) bool {
		want := int64(1)
		if o.Spec.Completions != nil {
			want = *o.Spec.Completions
		}
		return o.Status.Succeeded >= want
	},
	"Build": func(o *object) bool { return o.Status.Phase == "Complete" },
}

func replicasReady(o *object) bool {
	want := int64(1)
	if o.Spec.Replicas != nil {
		want = *o.Spec.Replicas
	}
	return o.observed() && o.Status.ReadyReplicas >= want
}

// observed reports whether the status reflects the present spec.
func (o *object) observed() bool {
	var seen int64
	if err := json.Unmarshal(o.Status.ObservedGeneration, &seen); err != nil {
		return o.Metadata.Generation <= 1 && len(o.Status.ObservedGeneration) > 0
	}
	return seen >= o.Metadata.Generation
}

// Takes reports whether a kind takes a while to become ready.
func Takes(kind string) bool { return readiness[kind] != nil }

func (o *object) condition(name string) (status, why string) {
	for _, c := range o.Status.Conditions {
		if c.Type == name {
			return c.Status, c.Reason + ": " + c.Message
		}
	}
	return "", ""
}

// owned reports whether a controller created the object.
func (o *object) owned() bool {
	return slices.ContainsFunc(o.Metadata.OwnerReferences, func(r struct{ Controller bool }) bool { return r.Controller })
}

// took returns the time from an object's creation to a condition, from the API's whole-second
// timestamps; negative if unknown. It returns 0 if a node's slow clock makes it negative.
func (o *object) took(condition string) time.Duration {
	for _, c := range o.Status.Conditions {
		if c.Type == condition && c.Status == "True" && !c.LastTransitionTime.IsZero() && !o.Metadata.CreationTimestamp.IsZero() {
			return max(0, c.LastTransitionTime.Sub(o.Metadata.CreationTimestamp))
		}
	}
	return -1
}
