/* Keeps the topics with events. */
#include "check.h"
#include "eventio/ros/ros.h"

#include <stdlib.h>
#include <string.h>

cusStatus eventio_rosDamaged(const PacketReader *p, uint64_t at, const char *expected) {
    if (p->chunk_size)
        return cusi_fail(
            CUS_ERROR_FORMAT,
            "cusEventReaderRead: a damaged record at byte %llu of the chunk that ends at byte %llu, expected %s",
            (unsigned long long)at, (unsigned long long)p->place.offset, expected);
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: byte %llu: a damaged record, expected %s",
                     (unsigned long long)at, expected);
}

int eventio_rosType(RosText type, uint8_t *is_packet) {
    static const struct {
        const char *name;
        uint8_t is_packet;
    } known[] = {{"dvs_msgs/EventArray", 0},
                 {"dvs_msgs/msg/EventArray", 0},
                 {"prophesee_event_msgs/EventArray", 0}, /* the same fields */
                 {"prophesee_event_msgs/msg/EventArray", 0},
                 {"event_camera_msgs/EventPacket", 1},
                 {"event_camera_msgs/msg/EventPacket", 1},
                 {"event_array_msgs/EventArray", 1}, /* the former name */
                 {"event_array_msgs/msg/EventArray", 1}};
    for (size_t k = 0; k < sizeof known / sizeof *known; ++k)
        if (eventio_rosEquals(type, known[k].name)) {
            *is_packet = known[k].is_packet;
            return 1;
        }
    return 0;
}

const RosTopic *eventio_findTopic(const PacketReader *p, uint64_t at, uint32_t number) {
    const Ros *ros = p->state;
    const RosPosition here = eventio_rosPosition(p, at);
    for (size_t k = 0; k < ros->topic_count; ++k)
        if (ros->topics[k].number == number && !eventio_rosIsPast(ros->topics[k].since, here))
            return &ros->topics[k];
    return NULL;
}

cusStatus eventio_addTopic(PacketReader *p, uint64_t at, RosTopic topic, RosText name, int has_events) {
    Ros *ros = p->state;
    const RosTopic *known = eventio_findTopic(p, at, topic.number);
    if (known) {
        const int same = has_events && known->is_packet == topic.is_packet && known->is_cdr == topic.is_cdr &&
                         eventio_rosEquals(name, known->name);
        return same ? CUS_OK : eventio_rosDamaged(p, at, "the same topic under the same number");
    }
    if (!has_events)
        return CUS_OK;
    if (name.size >= ROS_NAME || memchr(name.at, '\0', name.size))
        return eventio_rosDamaged(p, at, "a topic of at most 255 characters");
    CUSI_REQUIRE(ros->topic_count < ROS_TOPICS, CUS_ERROR_CAPACITY, "cusEventReaderRead: more than %d topics with events",
                 ROS_TOPICS);
    if (ros->topic_count % 16 == 0) {
        RosTopic *grown = realloc(ros->topics, (ros->topic_count + 16) * sizeof *grown);
        CUSI_REQUIRE(grown, CUS_ERROR_NO_MEMORY, "cusEventReaderRead: out of host memory");
        ros->topics = grown;
    }
    memcpy(topic.name, name.at, name.size);
    topic.name[name.size] = '\0';
    topic.since = eventio_rosPosition(p, at);
    ros->topics[ros->topic_count++] = topic;
    return CUS_OK;
}

/* Returns whether `wanted` is the topic, or one or more of its parts: "left" and "left/events" are parts of
 * "/dvs/left/events". */
static int matches(const char *topic, const char *wanted) {
    const size_t n = strlen(wanted);
    for (const char *at = strstr(topic, wanted); at; at = strstr(at + 1, wanted))
        if ((at == topic || at[-1] == '/' || *wanted == '/') && (at[n] == '\0' || at[n] == '/'))
            return 1;
    return 0;
}

int eventio_isRead(const Ros *ros, const RosTopic *topic) {
    if (ros->chosen[0])
        return strcmp(topic->name, ros->chosen) == 0;
    return !ros->wanted || matches(topic->name, ros->wanted);
}

int eventio_isBeside(const Ros *ros, const RosTopic *topic) {
    const char *end = strrchr(ros->chosen, '/');
    const size_t folder = end ? (size_t)(end - ros->chosen) + 1 : 0;
    return topic->is_packet && folder && strncmp(topic->name, ros->chosen, folder) == 0 &&
           !strchr(topic->name + folder, '/');
}
