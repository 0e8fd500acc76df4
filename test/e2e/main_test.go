//go:build unix

// Package e2e proves the contract on real control planes, clause by clause: each test carries its clause in its name.
//
// Tests run beside each other (t.Parallel), in namespaces of their own or, where they stop or break clusters, on clusters of
// their own: most of their time they wait. Alone run those that measure how long something takes or how requests bunch, and
// those of plugins that carry what they find in any namespace.
//
// The rows of the deletion table (chapter D) are proven by:
//
//	cluster can't be read, another one     TestD2_WhileASideIsDown, TestF7_AnotherClusterBehindTheAddress, TestF7_KubeconfigThatNamesAnotherCluster
//	CRD going, gone, another; not served   TestF7_CRDOfTheSourcesGoes, TestF7_ImportsStayWhenTheirCRDGoes, TestS7_TheCRDGoesOnTheSourcesSide
//	error, pair not ready, not read yet    TestF6_403MissingRights, TestF6_NamespaceTerminatingThenMissing, TestF5_BadConfigurationEndsTheProcess
//	rule removed, or renamed               TestD5_RemovedRules, TestD5_ImportsOfARemovedRule, TestD5_RenamedRuleRestampsInPlace
//	namespace pair changed                 TestD2_ChangedNamespacePair, TestD2_ChangedNamespacePairWithoutRBAC, TestF8_RemovedPairIsHeld,
//	                                       TestF8_WithdrawnNamespaceIsNotHeld, TestD3_RemovedPairLetsGoOfItsSources
//	more than half, inferred               TestF8_InferredMassDeletionPauses, TestD2F7F8_TheSourcesClusterIsRestored
//	terminating, deleted, not selected     TestD2_SettledAlike, TestD1_DeletesAreBoundAndHonourTheTwinsFinalizers, TestS5_DeselectionRemovesTheTwin
//	back under another UID                 TestD2_SettledAlike, TestD2F7F8_TheSourcesClusterIsRestored
package e2e

import (
	"testing"

	"isthmus.dev/isthmus/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
