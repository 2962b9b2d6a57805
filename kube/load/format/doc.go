// Package format reads the files of kube-burner and of OpenShift's Cluster Loader into the
// specification of a load.
package format
