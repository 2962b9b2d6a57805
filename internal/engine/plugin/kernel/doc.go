// Package kernel has the plug-ins for kernel values: sysctl, sysfs, vm, modules, mounts, selinux
// and rtentsk. Each converts one section of a profile to changes. engine/plugin/table lists them.
package kernel
