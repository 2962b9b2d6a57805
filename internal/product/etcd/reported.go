package etcd

import (
	"cmp"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// Reported is an etcd member as a cluster's API shows it: by its pod or, without a pod, only by its
// own responses.
type Reported struct {
	Name, At string // name and source
	Image    string // of the member's container
	// Words are the container's command and arguments, Env its variables. Words is nil if the
	// cluster does not show the flags; Unread then has the reason.
	Words  []string
	Env    map[string]string
	Unread string
	// Version is the member's reported version, or "".
	Version string
	// Kubeadm is true if kubeadm made the pod; its upgrade replaces etcd's version.
	Kubeadm bool
	// OpenShift is true if OpenShift's operator made the pod.
	OpenShift bool
	// Kubernetes is the cluster's release, or the release for which it is judged.
	Kubernetes kuberelease.Release
	Upgrade    bool // true if Kubernetes is the release for which the cluster is judged
}

// Of returns the product instance of a member that a cluster reports.
func Of(r Reported) product.Installed {
	in := &instance{Instance: conf.Instance{Name: r.Name, Main: r.At}, env: map[string]told{}, image: told{r.Image, r.At}}
	for name, value := range r.Env {
		in.setVariable(name, told{value, r.At})
	}
	in.readWords(r.Words, r.At)
	switch config, ok, _ := in.option("config-file"); {
	case r.Words == nil:
		in.flags, in.unread = nil, cmp.Or(r.Unread, "the flags of etcd are only on its node; run fettle check etcd on that node")
	case ok:
		in.unread = config.text + " is on the node of " + r.Name + "; run fettle check etcd on that node"
	}
	i := daemon.New(nil, in.Instance, in, nil, product.ErrStopped)
	own := fact.Answer{Value: r.Version, At: r.At}
	if r.Version == "" {
		own = in.versionOf(nil, nil)
	}
	in.version, in.cluster = own, map[string]fact.Answer{"installed_version": own}
	if own.Unknown != "" && (r.Kubeadm || r.OpenShift) {
		delete(in.cluster, "installed_version") // no input depends on it
	}
	if r.Kubernetes == 0 {
		return i
	}
	installed, least := kuberelease.Known().Etcd(r.Kubernetes)
	at := "kubeadm of Kubernetes " + r.Kubernetes.String()
	if !r.Kubeadm && !r.OpenShift {
		in.cluster["least_version"] = fact.Answer{Value: least, At: at}
	}
	if !r.Upgrade {
		return i
	}
	now, known := releaseOf(own)
	next, _ := parseRelease(installed)
	switch {
	case r.OpenShift:
		in.version = fact.Answer{Unknown: "unknown which image and flags of etcd OpenShift's operator writes for that release", At: r.At}
	case !r.Kubeadm && r.Words != nil:
		in.version = fact.Answer{Unknown: fmt.Sprintf("unknown which etcd this cluster uses with Kubernetes %s (kubeadm: %s); run fettle check etcd --for %s on the node", r.Kubernetes, installed, next), At: r.At}
	case r.Kubeadm && known && now > next: // kubeadm keeps a newer version
	case r.Kubeadm:
		in.version = fact.Answer{Value: installed, At: at}
		skipped := []string{}
		for between := now + 1; known && between < next; between++ {
			skipped = append(skipped, between.String())
		}
		in.cluster["skipped_releases"] = fact.Answer{Value: skipped, At: at}
		if !known {
			in.cluster["skipped_releases"] = fact.Answer{Unknown: own.Unknown, At: cmp.Or(own.At, r.At)}
		}
	}
	return i
}

// tagged returns the version in an image's tag, such as 3.6.5-0 for registry.k8s.io/etcd:3.6.5-0,
// or "".
func tagged(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	if _, ok := parseRelease(tag); !ok {
		return ""
	}
	return strings.TrimPrefix(tag, "v")
}
