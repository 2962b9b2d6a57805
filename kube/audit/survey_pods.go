package audit

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/product/etcd"
	kubeetcd "fettle.dev/fettle/kube/etcd"
)

// pod is the part of a pod that the survey reads.
type pod struct {
	Metadata surveyMeta
	Spec     struct {
		NodeName string
		Volumes  []struct {
			Name                  string
			PersistentVolumeClaim *struct{ ClaimName string }
			// Ephemeral is set for a volume with its own claim, named POD-VOLUME.
			Ephemeral *struct{}
		}
		Containers []struct {
			Name, Image   string
			Command, Args []string
			Env           []struct{ Name, Value string }
			VolumeMounts  []struct{ Name string }
			VolumeDevices []struct{ Name string }
		}
	}
	Status struct{ Phase string }
}

// pods holds the figures that the survey keeps of all pods.
type pods struct {
	users    map[string][]User // pods by claim, NAMESPACE/NAME
	replicas map[string]int    // number of running pods by owner UID
	unread   string
}

// readPods counts pods, and records their claims and the controller manager's arguments. It reads
// page by page, because all pods of a large cluster would need too much memory.
func (s *Survey) readPods(ctx context.Context) {
	s.pods = pods{users: map[string][]User{}, replicas: map[string]int{}}
	all, in, on := 0, map[string]int{}, map[string]int{}
	err := list(ctx, s, "/api/v1/pods", false, func(p *pod) {
		all++
		in[p.Metadata.Namespace]++
		if p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
			return
		}
		if p.Spec.NodeName != "" {
			on[p.Spec.NodeName]++
		}
		s.pods.take(p)
		if args := controller(p); len(args) > 0 {
			s.cluster.Controller = args
		}
		if member, ok := etcdPod(p); ok {
			s.cluster.EtcdPods = append(s.cluster.EtcdPods, member)
		}
		if program, ok := programPod(p); ok {
			s.cluster.Programs = append(s.cluster.Programs, program)
		}
	})
	if err != nil {
		s.pods.unread = refused("pods", err)
	}
	s.count("pods", all, "", err)
	n, where := most(in)
	s.count("pods_per_namespace", n, where, err)
	n, where = most(on)
	s.count("pods_per_node", n, where, err)
}

// take records the claims of a pod.
func (x *pods) take(p *pod) {
	owner := p.Metadata.owner()
	if p.Status.Phase == "Running" && owner != "" {
		x.replicas[owner]++
	}
	for _, v := range p.Spec.Volumes {
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = p.Metadata.Name + "-" + v.Name
		default:
			continue
		}
		u := User{Pod: p.Metadata.Name, Owner: owner}
		for _, c := range p.Spec.Containers {
			mounts := slices.ContainsFunc(c.VolumeMounts, func(m struct{ Name string }) bool { return m.Name == v.Name }) ||
				slices.ContainsFunc(c.VolumeDevices, func(d struct{ Name string }) bool { return d.Name == v.Name })
			if mounts {
				u.Containers = append(u.Containers, Container{Name: c.Name, Image: c.Image})
			}
		}
		if p.Status.Phase == "Running" {
			id := p.Metadata.Namespace + "/" + name
			x.users[id] = append(x.users[id], u)
		}
	}
}

// controller returns the controller manager's arguments if the pod runs it, otherwise nil.
func controller(p *pod) []string {
	if p.Metadata.Namespace != "kube-system" {
		return nil
	}
	for _, c := range p.Spec.Containers {
		if c.Name == "kube-controller-manager" {
			return slices.Concat(c.Command, c.Args)
		}
	}
	return nil
}

// etcdPod returns how a pod starts an etcd member; ok is false for other pods. Members are in
// kube-system (kubeadm, RKE2 and others) or OpenShift's namespace.
func etcdPod(p *pod) (r etcd.Reported, ok bool) {
	openshift := p.Metadata.Namespace == kubeetcd.OpenShift.Namespace && p.Metadata.Labels["app"] == ofEtcd
	if !openshift && (p.Metadata.Namespace != kubeetcd.KubeSystem.Namespace || p.Metadata.Labels["component"] != "etcd") {
		return r, false
	}
	for _, c := range p.Spec.Containers {
		if words := slices.Concat(c.Command, c.Args); etcd.IsContainer(c.Name) && len(words) > 0 {
			r = etcd.Reported{Name: p.Metadata.Name, At: "pod " + p.Metadata.Namespace + "/" + p.Metadata.Name, Image: c.Image, Words: words, Env: map[string]string{}, OpenShift: openshift}
			for _, e := range c.Env {
				r.Env[e.Name] = e.Value
			}
			_, r.Kubeadm = p.Metadata.Annotations[kubeetcd.URLsOf]
			return r, true
		}
	}
	return r, false
}

// claims reads all claims with their drivers.
func (s *Survey) claims(ctx context.Context) {
	c := s.cluster
	if s.pods.unread != "" {
		c.Miss(OfClaims, "unknown which pods use the claims: %s", s.pods.unread)
		return
	}
	volumes, classes := map[string]string{}, map[string]string{}
	type volume struct {
		Metadata surveyMeta
		Spec     map[string]json.RawMessage
	}
	type class struct {
		Metadata    surveyMeta
		Provisioner string
	}
	type claim struct {
		Metadata surveyMeta
		Spec     struct {
			AccessModes            []string
			VolumeName, VolumeMode string
			StorageClassName       string
		}
	}
	err := list(ctx, s, "/api/v1/persistentvolumes", false, func(v *volume) { volumes[v.Metadata.Name] = driverOf(v.Spec) })
	if err == nil {
		err = list(ctx, s, "/apis/storage.k8s.io/v1/storageclasses", false, func(x *class) { classes[x.Metadata.Name] = inTree(x.Provisioner) })
	}
	if err == nil {
		err = list(ctx, s, "/api/v1/persistentvolumeclaims", false, func(x *claim) {
			out := Claim{Namespace: x.Metadata.Namespace, Name: x.Metadata.Name, Modes: x.Spec.AccessModes, Raw: x.Spec.VolumeMode == "Block"}
			if out.Driver = volumes[x.Spec.VolumeName]; out.Driver == "" {
				out.Driver = classes[x.Spec.StorageClassName]
			}
			for _, u := range s.pods.users[out.Namespace+"/"+out.Name] {
				u.Replicas = s.pods.replicas[u.Owner]
				out.Users = append(out.Users, u)
			}
			c.Claims = append(c.Claims, out)
		})
	}
	if err != nil {
		c.Claims = nil
		c.Miss(OfClaims, "%s", refused("claims and volumes", err))
	}
}

// noSource are the keys of a PersistentVolume's spec other than volume sources.
var noSource = []string{
	"accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy", "storageClassName", "volumeAttributesClassName", "volumeMode",
}

// driverOf returns a volume's CSI driver, or a name such as "in-tree nfs".
func driverOf(spec map[string]json.RawMessage) string {
	var csi struct{ Driver string }
	if text, ok := spec["csi"]; ok && json.Unmarshal(text, &csi) == nil {
		return csi.Driver
	}
	source := ""
	for key := range spec {
		if name := "in-tree " + key; !slices.Contains(noSource, key) && (source == "" || name < source) {
			source = name
		}
	}
	return source
}

// provisioners maps Kubernetes' built-in provisioners to their volume sources.
var provisioners = map[string]string{
	"aws-ebs": "awsElasticBlockStore", "azure-disk": "azureDisk", "azure-file": "azureFile", "gce-pd": "gcePersistentDisk", "vsphere-volume": "vsphereVolume",
	"cinder": "cinder", "rbd": "rbd", "glusterfs": "glusterfs",
}

// inTree returns the driver of a built-in provisioner's volumes. kubernetes.io/no-provisioner
// creates no volumes, so its driver is "".
func inTree(provisioner string) string {
	name, own := strings.CutPrefix(provisioner, "kubernetes.io/")
	switch source, known := provisioners[name]; {
	case own && known:
		return "in-tree " + source
	case own && name == "no-provisioner":
		return ""
	}
	return provisioner
}
