// Package kernel holds the plug-ins for values that the kernel keeps: sysctl, sysfs, vm,
// modules, mounts, selinux and rtentsk. Each plans changes from a section of a profile;
// engine/plugin/table lists them.
package kernel
