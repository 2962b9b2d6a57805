package admission

import (
	"fmt"
	"slices"
	"strings"
)

// Features of a node that pods can need, as the node declares them.
const (
	FeatureRestartAll       = "RestartAllContainersOnContainerExits"
	FeatureHostNetworkUsers = "UserNamespacesHostNetworkSupport"
	FeatureBindMountOptions = "VolumeBindMountOptions"
)

// podFeatures are the releases whose kubelets ask for a feature, and whether the container
// runtime decides on it too. The feature gate without which no node has it has its name.
// Source: k8s.io/component-helpers v0.35.4, v0.36.3 and v0.37.2, nodedeclaredfeatures, and
// k8s.io/kubernetes v1.37.2, pkg/kubelet/lifecycle/handlers.go, declaredFeaturesAdmitHandler.
var podFeatures = map[string]struct {
	since   Release
	runtime bool
}{FeatureRestartAll: {declaredFeatures, false}, FeatureHostNetworkUsers: {36, true}, FeatureBindMountOptions: {37, true}}

// ReasonFeature is the reason for which a kubelet refuses a pod that needs a feature which
// its node does not declare.
const ReasonFeature = "PodFeatureUnsupported"

// declares reports whether the node has a feature: by its status.declaredFeatures, or as its
// kubelet makes that list, by the feature gates and, where known is false, by what its
// container runtime reports. A server that drops the field leaves it empty.
func (in *Input) declares(feature string) (yes, known bool) {
	if in.Place != nil && len(in.Place.Features) > 0 {
		return slices.Contains(in.Place.Features, feature), true
	}
	on := in.Settings.gateOn(feature)
	return on, !on || !podFeatures[feature].runtime
}

// undeclared are the features that the pod needs and the node does not declare; ok is false
// where it is not known whether it does.
func (in *Input) undeclared() (missing []string, ok bool) {
	if !in.Settings.gateOn("NodeDeclaredFeatures") {
		return nil, true
	}
	var open []string
	for _, f := range in.Pod.Features {
		if in.Settings.Release.orNewest() < podFeatures[f].since {
			continue
		}
		switch yes, known := in.declares(f); {
		case !known:
			open = append(open, f)
		case !yes:
			missing = append(missing, f)
		}
	}
	if missing != nil {
		return missing, true
	}
	return open, open == nil
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
