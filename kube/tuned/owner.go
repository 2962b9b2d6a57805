package tuned

// The label by which fettle's operator marks the Profile objects that it writes.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "fettle"
)

// Ours reports whether fettle's operator has written the Profile.
func (p *Profile) Ours() bool { return p.Labels[ManagedByLabel] == ManagedBy }

// NodeTuningOwner names the object by which the Node Tuning Operator owns a Profile, such
// as "Tuned default"; "" where it does not, and where fettle's operator has taken the
// Profile over. Its operand applies such a Profile, and writes its status.
// Source: openshift/cluster-node-tuning-operator at d2394aa, pkg/operator/controller.go,
// getDefaultTunedRefs.
func (p *Profile) NodeTuningOwner() string {
	if p.Ours() {
		return ""
	}
	for _, o := range p.OwnerReferences {
		if o.Kind == "Tuned" {
			return o.Kind + " " + o.Name
		}
	}
	return ""
}
