package admission

import (
	"fmt"
	"slices"
	"strings"
)

// Features of a node that pods can need, as the node declares them, with the release whose
// kubelets ask for them.
// Source: k8s.io/component-helpers v0.35.4, v0.36.3 and v0.37.2, nodedeclaredfeatures, and
// k8s.io/kubernetes v1.37.2, pkg/kubelet/lifecycle/handlers.go, declaredFeaturesAdmitHandler.
const (
	FeatureRestartAll       = "RestartAllContainersOnContainerExits"
	FeatureHostNetworkUsers = "UserNamespacesHostNetworkSupport"
)

var featureSince = map[string]Release{FeatureRestartAll: declaredFeatures, FeatureHostNetworkUsers: 36}

// ReasonFeature is the reason for which a kubelet refuses a pod that needs a feature which
// its node does not declare.
const ReasonFeature = "PodFeatureUnsupported"

// undeclared are the features that the pod needs and the node does not declare; ok is false
// where it is not known what the node declares.
func (in *Input) undeclared() (missing []string, ok bool) {
	if !in.Settings.gateOn("NodeDeclaredFeatures") {
		return nil, true
	}
	known := in.Place != nil && in.Place.Features != nil
	for _, f := range in.Pod.Features {
		if in.Settings.Release.orNewest() >= featureSince[f] && (!known || !slices.Contains(in.Place.Features, f)) {
			missing = append(missing, f)
		}
	}
	return missing, known || missing == nil
}

// unsupported is the kubelet's refusal of a pod for the features that it needs.
func (in *Input) unsupported() *refusal {
	missing, ok := in.undeclared()
	if !ok || missing == nil {
		return nil
	}
	return &refusal{ReasonFeature, "the pod needs features that the node does not declare (status.declaredFeatures): " + strings.Join(missing, ", ")}
}

// doubtful is the verdict where the kubelet would start the pod, if the node declares the
// features that it needs.
func (in *Input) doubtful() *Verdict {
	missing, ok := in.undeclared()
	if ok {
		return nil
	}
	node := in.Node.Name
	if node == "" {
		node = "NODE"
	}
	return &Verdict{Outcome: Unknown, Message: fmt.Sprintf("the pod needs %s of the node, and it is not known whether the node declares it (%s otherwise): kubectl get node %s -o jsonpath='{.status.declaredFeatures}'", strings.Join(missing, " and "), ReasonFeature, node)}
}

// byClaim reports whether a claim gives a container a resource, so that the device manager
// has nothing to give.
func (in *Input) byClaim(c *Container, name string) bool {
	return slices.Contains(c.Claimed, name) && in.Settings.Release.orNewest() >= claimsGive && in.Settings.gateOn("DRAExtendedResource")
}

// withoutClaimed is the pod without what claims give, as the kubelet's last check counts it.
func (in *Input) withoutClaimed() *Pod {
	p := in.Pod
	strip := func(list []Container) []Container {
		list = slices.Clone(list)
		for i := range list {
			c := &list[i]
			requests := Resources{}
			for name, q := range c.Requests {
				if !in.byClaim(c, name) || in.Settings.Release.orNewest() < claimsFit {
					requests[name] = q
				}
			}
			c.Requests = requests
		}
		return list
	}
	p.Init, p.Containers = strip(p.Init), strip(p.Containers)
	return &p
}
