package audit

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/text"
	kubeetcd "fettle.dev/fettle/kube/etcd"
)

// openShiftServers is the namespace of OpenShift's API servers.
const openShiftServers = "openshift-kube-apiserver"

// Program is a control-plane program whose command line is visible in a pod.
type Program struct {
	Pod, At string
	Name    string // such as kube-apiserver
	Image   string
	Flags   []kuberelease.Flag
	// Unread is why some flags are unknown, or "".
	Unread   string
	revision string // of OpenShift's pod; the revision's ConfigMap has more flags
}

// programPod returns the control-plane program in a static pod of kube-system (kubeadm, RKE2 and
// others) or of OpenShift's API servers; ok is false for other pods.
func programPod(p *pod) (out Program, ok bool) {
	out = Program{Pod: p.Metadata.Name, Name: p.Metadata.Labels["component"], At: "pod " + p.Metadata.Namespace + "/" + p.Metadata.Name}
	switch p.Metadata.Namespace {
	case kubeetcd.KubeSystem.Namespace:
		if !slices.Contains([]string{apiServer, controllerManager, scheduler}, out.Name) {
			return out, false
		}
	case openShiftServers:
		if p.Metadata.Labels["app"] != openShiftServers {
			return out, false
		}
		out.Name, out.revision = apiServer, p.Metadata.Labels["revision"]
	default:
		return out, false
	}
	for _, c := range p.Spec.Containers {
		if words := slices.Concat(c.Command, c.Args); c.Name == out.Name && len(words) > 0 {
			out.Image = c.Image
			out.Flags, ok = programFlags(words, out.Name)
			return out, ok
		}
	}
	return out, false
}

// programFlags returns a program's flags from its container's words, or from the last line of a
// shell script, such as OpenShift's exec ... hyperkube kube-apiserver --NAME=VALUE. ok is false if
// the words do not contain the program. It omits OpenShift's own flag.
func programFlags(words []string, program string) (out []kuberelease.Flag, ok bool) {
	if strings.Contains(words[len(words)-1], "\n") {
		words = strings.Fields(strings.ReplaceAll(words[len(words)-1], "\\\n", " "))
	}
	at := -1
	for i, w := range words {
		if path.Base(w) == program {
			at = i
		}
	}
	if at < 0 {
		return nil, false
	}
	for i := at + 1; i < len(words); i++ {
		name, dashed := strings.CutPrefix(words[i], "-")
		if !dashed {
			break
		}
		name, value, whole := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		if !whole && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++
			value = words[i]
		}
		if name != "openshift-config" {
			out = append(out, kuberelease.Flag{Name: name, Value: value})
		}
	}
	return out, true
}

// release returns the program's release from its image's tag, or else the cluster's.
func (p *Program) release(of kuberelease.Release) kuberelease.Release {
	image, _, _ := strings.Cut(p.Image, "@")
	if _, tag, ok := strings.Cut(path.Base(image), ":"); ok {
		if r, ok := kuberelease.Parse(tag); ok {
			return r
		}
	}
	return of
}

// programs sets the answers about the flags of the control plane's programs: the running ones, and
// those that kubeadm writes in an upgrade.
func (c *Cluster) programs(a *platform.Known) {
	of, _ := kuberelease.Parse(c.Version)
	if why := c.Unread[OfKubeadm]; why != "" {
		a.Unlisted(platform.Programs, "unknown which flags kubeadm writes: "+why)
	}
	for i := range c.Programs {
		p := &c.Programs[i]
		switch {
		case c.as != 0 && (c.Kubeadm != nil || c.Unread[OfKubeadm] != ""):
			// kubeadm writes a new pod.
		case c.as != 0 && c.OpenShift != "":
			unclearFlags(a, p.Pod, p.At, "OpenShift's operator writes the API servers' flags per release; the flags of another release are unknown")
		case c.as != 0:
			unclearFlags(a, p.Pod, p.At, "no ConfigMap "+kubeadmMap+"; the program's flags in another release are unknown")
		case p.Unread != "":
			unclearFlags(a, p.Pod, p.At, p.Unread)
		default:
			c.flags(a, p.Pod, p.At, p.Name, p.Flags, p.release(of))
		}
	}
	if c.Kubeadm == nil {
		return
	}
	if c.as != 0 {
		of = c.as
		c.kubeletFlags(a)
	}
	for program, part := range map[string]string{apiServer: "apiServer", controllerManager: "controllerManager", scheduler: "scheduler"} {
		c.flags(a, "kubeadm "+part, "ConfigMap "+kubeadmMap+", "+part+".extraArgs", program, c.Kubeadm.Flags[program], of)
	}
}

// kubeletFlags answers which flags of the kubelets are refused. No object of the cluster has these
// flags. If the other release has every flag that the oldest kubelet's release has, none is
// refused; otherwise the answer is unknown.
func (c *Cluster) kubeletFlags(a *platform.Known) {
	const program = "kubelet"
	table, oldest := kuberelease.Known(), c.as
	for _, n := range c.Nodes {
		r, _ := kuberelease.Parse(n.Kubelet)
		oldest = min(oldest, r)
	}
	if len(c.Nodes) == 0 {
		oldest = 0
	}
	gone := table.GoneFlags(program, c.as, oldest)
	if len(gone) == 0 {
		a.Add(platform.Programs, program)
		a.Give(platform.Programs+"."+program+".refused_flags", []string{}, "kubelets of the nodes")
		return
	}
	names := "--" + strings.Join(gone[:min(len(gone), 3)], ", --")
	if more := len(gone) - 3; more > 0 {
		names += text.Sprintf(" and %d more", more)
	}
	unclearFlags(a, program, "", fmt.Sprintf("Kubernetes %s no longer has the flags %s of Kubernetes %s. No object of the cluster tells whether a kubelet uses them (kubeletExtraArgs): look into /var/lib/kubelet/kubeadm-flags.env on its node, or run fettle check --for %s on the node", c.as, names, table.Nearest(oldest), c.as))
}

// flags provides the answer about one command line.
func (c *Cluster) flags(a *platform.Known, item, at, program string, flags []kuberelease.Flag, of kuberelease.Release) {
	if oldest := kuberelease.Known().Oldest; of < oldest {
		unclearFlags(a, item, at, fmt.Sprintf("its release is unknown, or older than %s, the oldest that fettle knows", oldest))
		return
	}
	v := kuberelease.JudgeFlags(program, flags, kuberelease.Kubelet{Release: of, OpenShift: c.OpenShift != ""})
	if len(v.Refused) == 0 && len(v.Unknown) > 0 {
		unclearFlags(a, item, at, v.Unknown[0].String())
		return
	}
	refused := []string{}
	for _, f := range v.Refused {
		refused = append(refused, f.String())
	}
	a.Add(platform.Programs, item)
	a.Give(platform.Programs+"."+item+".refused_flags", refused, at)
}

func unclearFlags(a *platform.Known, item, at, why string) {
	a.Add(platform.Programs, item)
	a.Unclear(platform.Programs+"."+item+".refused_flags", at, why)
}

// programsByRelease checks the rules about flags of control-plane programs.
func (c *Cluster) programsByRelease(ctx context.Context, rules *rule.Catalogue, disabled map[string]string) []rule.Finding {
	a := &platform.Known{}
	c.programs(a)
	a.Sort()
	of := func(r *rule.Rule) bool { return r.Each == platform.Programs }
	return rules.Filter(of).Check(ctx, &machineOf{own: a, counted: &platform.Known{}}, []string{platform.Name}, disabled)
}
