package plan

import (
	"slices"
	"strings"
)

// Kind is a kind of object as an API server serves it.
type Kind struct {
	APIVersion string `json:"api_version"`
	Kind       string `json:"kind"`
	// Resource is its name in paths: deployments.
	Resource   string `json:"resource"`
	Namespaced bool   `json:"namespaced"`
}

func (k Kind) String() string { return k.Kind + " of " + k.APIVersion }

// Path returns the path of its objects in the API, in a namespace if that is not "".
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

// Kinds are those of a server; nil if unknown.
type Kinds []Kind

func (all Kinds) find(version, kind string) (Kind, bool) {
	i := slices.IndexFunc(all, func(k Kind) bool { return k.APIVersion == version && k.Kind == kind })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// namespaceKind is that of namespaces.
var namespaceKind = Kind{"v1", "Namespace", "namespaces", false}

// usual are the kinds of Kubernetes and OpenShift that plans without a server know.
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

// legacy are the groups of OpenShift's kinds that templates of its early versions have as v1.
var legacy = map[string]string{
	"BuildConfig": "build.openshift.io/v1", "Build": "build.openshift.io/v1", "DeploymentConfig": "apps.openshift.io/v1",
	"ImageStream": "image.openshift.io/v1", "Route": "route.openshift.io/v1", "Template": "template.openshift.io/v1",
}

// podHolders are the kinds with a pod template, with the path to it in the spec.
var podHolders = map[string][]string{
	"Deployment": {"template"}, "ReplicaSet": {"template"}, "StatefulSet": {"template"}, "DaemonSet": {"template"},
	"ReplicationController": {"template"}, "DeploymentConfig": {"template"}, "Job": {"template"},
	"CronJob": {"jobTemplate", "spec", "template"},
}
