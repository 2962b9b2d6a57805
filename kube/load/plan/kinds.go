package plan

import (
	"errors"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// Kind is a kind of object that an API server serves.
type Kind struct {
	APIVersion string `json:"api_version"`
	Kind       string `json:"kind"`
	// Resource is the kind's name in paths, such as deployments.
	Resource   string `json:"resource"`
	Namespaced bool   `json:"namespaced"`
}

func (k Kind) String() string { return k.Kind + " of " + k.APIVersion }

// Path returns the API path of the kind's objects, in a namespace unless that is "".
func (k Kind) Path(namespace string) string {
	p := "/apis/" + k.APIVersion
	if !strings.Contains(k.APIVersion, "/") {
		p = "/api/" + k.APIVersion
	}
	if k.Namespaced && namespace != "" {
		p += "/namespaces/" + namespace
	}
	return p + "/" + k.Resource
}

// Kinds are the kinds of a server; nil means unknown.
type Kinds []Kind

func (all Kinds) find(version, kind string) (Kind, bool) {
	i := slices.IndexFunc(all, func(k Kind) bool { return k.APIVersion == version && k.Kind == kind })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// namespaceKind is the kind of namespaces.
var namespaceKind = Kind{"v1", "Namespace", "namespaces", false}

// usual are the kinds of Kubernetes and OpenShift, for plans without a server.
var usual = func() Kinds {
	var all Kinds
	add := func(namespaced bool, of map[string]string) {
		for version, names := range of {
			for name := range strings.FieldsSeq(names) {
				kind, resource, _ := strings.Cut(name, "=")
				all = append(all, Kind{version, kind, resource, namespaced})
			}
		}
	}
	add(true, map[string]string{
		"v1":                           "Pod=pods Service=services ConfigMap=configmaps Secret=secrets ServiceAccount=serviceaccounts ReplicationController=replicationcontrollers PersistentVolumeClaim=persistentvolumeclaims LimitRange=limitranges ResourceQuota=resourcequotas Endpoints=endpoints Event=events",
		"apps/v1":                      "Deployment=deployments ReplicaSet=replicasets StatefulSet=statefulsets DaemonSet=daemonsets",
		"batch/v1":                     "Job=jobs CronJob=cronjobs",
		"networking.k8s.io/v1":         "Ingress=ingresses NetworkPolicy=networkpolicies",
		"policy/v1":                    "PodDisruptionBudget=poddisruptionbudgets",
		"autoscaling/v2":               "HorizontalPodAutoscaler=horizontalpodautoscalers",
		"rbac.authorization.k8s.io/v1": "Role=roles RoleBinding=rolebindings",
		"build.openshift.io/v1":        "BuildConfig=buildconfigs Build=builds",
		"apps.openshift.io/v1":         "DeploymentConfig=deploymentconfigs",
		"image.openshift.io/v1":        "ImageStream=imagestreams",
		"route.openshift.io/v1":        "Route=routes",
	})
	add(false, map[string]string{
		"v1":                           "Namespace=namespaces PersistentVolume=persistentvolumes",
		"rbac.authorization.k8s.io/v1": "ClusterRole=clusterroles ClusterRoleBinding=clusterrolebindings",
		"storage.k8s.io/v1":            "StorageClass=storageclasses",
		"scheduling.k8s.io/v1":         "PriorityClass=priorityclasses",
		"apiextensions.k8s.io/v1":      "CustomResourceDefinition=customresourcedefinitions",
	})
	return all
}()

// legacy maps OpenShift kinds that old templates declare as v1 to their groups.
var legacy = map[string]string{
	"BuildConfig": "build.openshift.io/v1", "Build": "build.openshift.io/v1", "DeploymentConfig": "apps.openshift.io/v1",
	"ImageStream": "image.openshift.io/v1", "Route": "route.openshift.io/v1", "Template": "template.openshift.io/v1",
}

// podHolders maps kinds with a pod template to the template's path in the spec.
var podHolders = map[string][]string{
	"Deployment": {"template"}, "ReplicaSet": {"template"}, "StatefulSet": {"template"}, "DaemonSet": {"template"},
	"ReplicationController": {"template"}, "DeploymentConfig": {"template"}, "Job": {"template"},
	"CronJob": {"jobTemplate", "spec", "template"},
}

// ToAll reports whether controllers of Kubernetes or OpenShift create this object in every
// namespace; resource is a name such as configmaps.
func ToAll(resource, name string, annotations map[string]string) bool {
	switch resource {
	case "configmaps":
		return name == "kube-root-ca.crt" || name == "openshift-service-ca.crt"
	case "serviceaccounts":
		return name == "default" || name == "builder" || name == "deployer"
	case "rolebindings":
		return name == "system:deployers" || name == "system:image-builders" || name == "system:image-pullers"
	case "secrets":
		_, is := Account(annotations)
		return is
	}
	return false
}

// ByOpenShift reports whether only OpenShift creates this object in every namespace.
func ByOpenShift(resource, name string) bool {
	return name != "default" && name != "kube-root-ca.crt" && ToAll(resource, name, nil)
}

// Account returns the service account of a secret with these annotations (a token or image pull
// credentials); is is false for other secrets. A controller or a user may have created the secret.
// For an OpenShift secret that does not name the account, it returns "" and true.
func Account(annotations map[string]string) (account string, is bool) {
	if account, is = annotations["kubernetes.io/service-account.name"]; is {
		return account, true
	}
	for note, value := range annotations {
		if note == "openshift.io/internal-registry-auth-token.service-account" {
			return value, true
		}
		is = is || strings.HasPrefix(note, "openshift.io/internal-registry")
	}
	return "", is
}

// MaxObjects is the maximum number of objects in a plan.
const MaxObjects = 2_000_000

// ErrTooLarge means that a load has more than MaxObjects objects.
var ErrTooLarge = errors.New("the load is too large")

// ErrTwice means that two objects of a load have the same name.
var ErrTwice = errors.New("would be created twice")

func tooLarge(at string, n int) error {
	return text.Errorf("%s: %w: %d objects, at most %d supported", at, ErrTooLarge, n, MaxObjects)
}

// bounded returns ErrTooLarge for a load with too many objects by its counts alone, assuming one
// object per group and replica. It runs before anything is built in memory.
func bounded(l *Load) error {
	all := 0
	for i := range l.Stages {
		s := &l.Stages[i]
		if s.Iterations > MaxObjects { // prevents overflows below
			return tooLarge(s.At, s.Iterations)
		}
		if s.Iterations <= 0 {
			continue
		}
		if all += s.Namespaces(); all > MaxObjects {
			return tooLarge(s.At, all)
		}
		for j := range s.Groups {
			g := &s.Groups[j]
			if g.Count > MaxObjects {
				return tooLarge(g.At, g.Count)
			}
			if all += s.Times(g) * max(0, g.Count); all > MaxObjects {
				return tooLarge(g.At, all)
			}
		}
	}
	return nil
}

// objects returns the number of objects that a compiled group creates in its stage.
func (g *group) objects(s *Stage) int {
	if g.each == nil {
		return s.Times(g.of) * max(0, g.of.Count) * len(g.bodies)
	}
	n := 0
	for _, bodies := range g.each {
		n += len(bodies)
	}
	return n
}
