package audit

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/rule"
)

func TestRoleOf(t *testing.T) {
	for text, want := range map[string]string{
		"prometheus quay.io/prometheus/prometheus:v2.53.0":                                 "metrics",
		"alertmanager quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:0123":          "metrics",
		"c docker.elastic.co/elasticsearch/elasticsearch:8.1.0":                            "logging",
		"elasticsearch registry.redhat.io/openshift-logging/elasticsearch6-rhel8@sha256:1": "logging",
		"etcd registry.k8s.io/etcd:3.5.9-0":                                                "etcd",
		"postgres localhost:5000/postgres":                                                 "databases",
		"database registry.redhat.io/rhel9/postgresql-16:latest":                           "databases",
		"mysql bitnami/mysql":                                                              "databases",
		"registry docker.io/library/registry:2":                                            "registry",
		"registry quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:0123":              "registry",
		"app confluentinc/cp-schema-registry:7.0":                                          "",
		"exporter quay.io/prometheuscommunity/postgres-exporter:v0.15":                     "",
		"operator quay.io/prometheus-operator/prometheus-operator:v0.7":                    "",
		"web nginx:1.25":                       "",
		"c ":                                   "",
		"backup example.com/postgres-backup:1": "",
		"notmongodbatall example.com/x":        "",
	} {
		name, image, _ := strings.Cut(text, " ")
		if got := roleOf(Container{name, image}); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func FuzzRole(f *testing.F) {
	f.Add("c", "registry.example.com:5000/db/postgresql:16@sha256:00")
	f.Add("registry", "")
	known := map[string]bool{"": true, "registry": true, "metrics": true, "logging": true, "etcd": true, "databases": true}
	f.Fuzz(func(t *testing.T, name, image string) {
		if r := roleOf(Container{name, image}); !known[r] {
			t.Errorf("%q", r)
		}
	})
}

func TestDrivers(t *testing.T) {
	_, tables := catalogue(t)
	for name, want := range map[string]driver{
		"ebs.csi.aws.com":                               {"block", "", false, true},
		"openshift-storage.rbd.csi.ceph.com":            {"block", "ceph", true, true},
		"openshift-storage.cephfs.csi.ceph.com":         {"file", "ceph", true, true},
		"cluster.local/nfs-subdir-external-provisioner": {"file", "nfs", true, true},
		"in-tree nfs":      {"file", "nfs", true, true},
		"in-tree hostPath": {"block", "", false, true},
		"csi.example.com":  {},
		"":                 {},
	} {
		if got := drivers(tables, name); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// TestStorage compares claims with table 10.2 and its footnotes.
func TestStorage(t *testing.T) {
	used := func(image string, users, replicas int) (out []User) {
		for range users {
			out = append(out, User{Pod: "p", Containers: []Container{{"sidecar", "busybox"}, {"c", image}}, Owner: "o", Replicas: replicas})
		}
		return out
	}
	rwo, rwx, rox := []string{"ReadWriteOnce"}, []string{"ReadWriteMany"}, []string{"ReadOnlyMany"}
	const ebs, nfs, ceph, fs = "ebs.csi.aws.com", "nfs.csi.k8s.io", "rbd.csi.ceph.com", "cephfs.csi.ceph.com"
	for name, c := range map[string]struct {
		claim Claim
		want  map[string]rule.State
	}{
		"Prometheus on EBS":                     {Claim{Modes: rwo, Driver: ebs, Users: used("prometheus", 1, 1)}, map[string]rule.State{"O29.claim": rule.Passed, "O29.metrics": rule.NotApplicable, "O30.claim": rule.Passed, "O31.claim": rule.NotApplicable, "O29.logging": rule.NotApplicable}},
		"Prometheus on NFS":                     {Claim{Modes: rwo, Driver: nfs, Users: used("prometheus", 1, 1)}, map[string]rule.State{"O29.claim": rule.Warned, "O29.metrics": rule.Passed, "O30.claim": rule.Warned}},
		"Alertmanager on CephFS, by many":       {Claim{Modes: rwx, Driver: fs, Users: used("alertmanager", 1, 1)}, map[string]rule.State{"O29.claim": rule.Warned, "O29.metrics": rule.Failed, "O30.claim": rule.Passed, "O29.writers": rule.Passed}},
		"Elasticsearch, one volume for three":   {Claim{Modes: rwx, Driver: fs, Users: used("elasticsearch", 3, 3)}, map[string]rule.State{"O29.claim": rule.Warned, "O29.logging": rule.Failed}},
		"Elasticsearch on Ceph RBD":             {Claim{Modes: rwo, Driver: ceph, Users: used("elasticsearch", 1, 1)}, map[string]rule.State{"O29.claim": rule.Passed, "O29.logging": rule.Passed, "O30.claim": rule.Passed}},
		"a registry on block storage":           {Claim{Modes: rwo, Driver: ebs, Users: used("registry:2", 1, 1)}, map[string]rule.State{"O29.claim": rule.Warned}},
		"a registry of two, each with a volume": {Claim{Modes: rwo, Driver: ebs, Users: used("registry:2", 1, 2)}, map[string]rule.State{"O29.claim": rule.Failed}},
		"a registry of two on file storage":     {Claim{Modes: rwx, Driver: fs, Users: used("registry:2", 2, 2)}, map[string]rule.State{"O29.claim": rule.Warned, "O30.claim": rule.Passed}},
		"a registry on NFS":                     {Claim{Modes: rwx, Driver: nfs, Users: used("registry:2", 2, 2)}, map[string]rule.State{"O29.claim": rule.Warned, "O30.claim": rule.Warned}},
		"etcd on Ceph":                          {Claim{Modes: rwo, Driver: ceph, Users: used("etcd", 1, 3)}, map[string]rule.State{"O29.claim": rule.Passed, "O31.claim": rule.Failed}},
		"etcd on NFS":                           {Claim{Modes: rwo, Driver: nfs, Users: used("etcd", 1, 3)}, map[string]rule.State{"O29.claim": rule.Failed, "O31.claim": rule.Failed}},
		"etcd on its own disk":                  {Claim{Modes: rwo, Driver: "in-tree local", Users: used("etcd", 1, 3)}, map[string]rule.State{"O29.claim": rule.Passed, "O31.claim": rule.Passed}},
		"a database on file storage":            {Claim{Modes: rwo, Driver: fs, Users: used("postgres:16", 1, 1)}, map[string]rule.State{"O29.claim": rule.Warned, "O30.claim": rule.NotApplicable}},
		"a database of nobody knows what":       {Claim{Modes: rwo, Driver: "csi.example.com", Users: used("postgres:16", 1, 1)}, map[string]rule.State{"O29.claim": rule.Unknown}},
		"a database without a volume":           {Claim{Modes: rwo, Users: used("postgres:16", 1, 1)}, map[string]rule.State{"O29.claim": rule.Unknown}},
		"many readers of EBS":                   {Claim{Modes: rox, Driver: ebs, Users: used("nginx", 3, 3)}, map[string]rule.State{"O29.readers": rule.Warned, "O29.writers": rule.NotApplicable}},
		"many readers of NFS":                   {Claim{Modes: rox, Driver: nfs, Users: used("nginx", 3, 3)}, map[string]rule.State{"O29.readers": rule.Passed}},
		"many writers of block storage":         {Claim{Modes: rwx, Driver: ebs, Users: used("nginx", 3, 3)}, map[string]rule.State{"O29.writers": rule.Failed, "O29.readers": rule.NotApplicable}},
		"many writers of a device":              {Claim{Modes: rwx, Raw: true, Driver: ceph, Users: used("virt-launcher", 2, 1)}, map[string]rule.State{"O29.writers": rule.NotApplicable}},
	} {
		t.Run(name, func(t *testing.T) {
			c.claim.Namespace, c.claim.Name = "ns", "data"
			got := judged(t, &Cluster{Claims: []Claim{c.claim}}, nil)
			for id, state := range c.want {
				if f := got[id+" ns/data"]; f.State != state {
					t.Errorf("%s is %s (%v; %s), want %s", id, f.State, f.Measured, f.Reason, state)
				}
			}
			if len(c.claim.Users) > 0 && strings.Contains(name, "many") && !strings.Contains(name, "Alert") {
				if _, role := got["O29.claim ns/data"]; role {
					t.Errorf("it has a role")
				}
			}
		})
	}
	if f := judged(t, &Cluster{Unread: map[Part]string{OfClaims: "forbidden"}}, nil)["O29.claim"]; f.State != rule.Unknown {
		t.Errorf("%+v", f)
	}
}
