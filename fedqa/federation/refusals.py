# SPDX-License-Identifier: Apache-2.0
"""What a silo, or the engine in its name, may say instead of an answer: codes, and what they mean."""

REFUSALS = {
    "course_not_approved": "the silo has not approved this course",
    "not_in_course": "the course does not allow what was asked",
    "bad_request": "the weights or tensors it was sent are not what the course says",
    "failed": "the silo's work ended with an error; its own log says which",
    "diverged": "its losses or weights became infinite; a lower learning rate may help",
    "no_examples": "the silo has no training examples",
    "over_budget": "it has answered as many questions of the others as the course allows",
    "no_probe": "it has no probe set: the silos could not make one together, or it was away when they did",
    "missed_stage": "it was not there when the stage before ended, so it cannot take part in this one",
    "late": "no answer before the deadline",
    "died": "the silo's process ended",
}
